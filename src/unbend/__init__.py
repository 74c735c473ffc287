"""unbend."""
